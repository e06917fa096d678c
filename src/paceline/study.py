"""A study: one job followed from its description to a run; each thing is worked out once, when it is asked for.

    job -> workload -> profile -> prediction, recommendation -> run

The command line and the functions of the package are thin over this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from paceline.errors import FileError, PacelineError, UnknownNameError
from paceline.job.job import Job, job_from_tables, read_job
from paceline.job.resolve import Case, devices_of, length_of, load_case, plan_of, profile_of
from paceline.launcher.launch import Hear, Order, launch_order
from paceline.launcher.run import Run
from paceline.predictor.explain import explained
from paceline.predictor.predict import Length, PlayedPlan, predict_played
from paceline.predictor.prediction import Prediction
from paceline.predictor.reference.catalogue import ReferenceResult, references_for
from paceline.recommender.recommend import recommend
from paceline.recommender.recommendation import Objective, Recommendation
from paceline.recommender.space import Question
from paceline.strategy.contract import Plan
from paceline.strategy.registry import find_strategy, make_plan, strategy_names
from paceline.workload.device import is_virtual
from paceline.workload.profile import Profile
from paceline.workload.workload import Workload

On = Literal["local", "emulated"]
JobLike = str | Path | Mapping[str, Any] | Job
Measure = Callable[[Case], Profile]


class Study:
    """A job and what follows from it.

    ``profile`` is one taken before; ``measure`` replaces the way a missing one is made (a progress bar around it).
    With ``on = "emulated"`` everything is asked of the cluster that this machine puts up for the job's.

    >>> study = Study({"model": {"name": "resnet50"}, "cluster": {"preset": "dgx-a100"}})
    >>> study.plan.strategy, study.prediction.fits
    ('allreduce', True)
    """

    def __init__(
        self,
        job: JobLike | None,
        overrides: Sequence[str] = (),
        profile: Profile | None = None,
        measure: Measure = profile_of,
        on: On = "local",
    ) -> None:
        self.case = load_case(open_job(job, overrides))
        self.on = on
        if on == "emulated":
            self.case = _emulated(self.case)
        self._profile = profile
        self._measure = measure

    @cached_property
    def workload(self) -> Workload:
        """The model, traced at the job's batch size and precision."""
        from paceline.workload.trace import trace

        train = self.case.job.spec.train
        return replace(trace(self.case.source, train.batch_per_device, train.precision), name=self.case.name)

    @cached_property
    def length(self) -> Length:
        """How much the job trains."""
        return length_of(self.case)

    @cached_property
    def profile(self) -> Profile:
        """The times that predictions come from."""
        return self._profile or self._measure(self.case)

    @cached_property
    def plan(self) -> Plan:
        """The job's plan; the best one at the job's own batch size where it says "auto"."""
        return plan_of(self.case) or self.recommend(keep_batch=True).best.plan

    @cached_property
    def played(self) -> PlayedPlan:
        """The prediction of the plan with its timeline."""
        plan_of(self.case)  # a wrong plan is found before anything is measured,
        length = self.length  # and so is a wrong data set
        profile, plan = self.profile, self.plan
        cluster = self.case.cluster
        try:
            return explained(profile, cluster, predict_played(profile, cluster, plan, length), length)
        except FileError:
            raise
        except PacelineError as error:
            raise FileError(self.case.job.where, "plan", str(error)) from error

    @property
    def prediction(self) -> Prediction:
        """The prediction of the plan."""
        return self.played.prediction

    def recommend(
        self, objective: Objective = "time", keep_batch: bool = False, strategies: tuple[str, ...] = ()
    ) -> Recommendation:
        """Return every plan that fits, ranked.

        With ``keep_batch`` only those with the job's batch on each device; of all strategies, or those named.
        """
        if objective == "cost" and self.case.cluster.price is None:
            what = "is missing, and ranking by cost needs it: [price] device_hour, helper_hour; see `paceline init`"
            raise FileError(self.case.job.where, "cluster.price", what)
        plan_of(self.case)  # a plan that the job names is not asked for here, but a mistake in it is one
        devices = devices_of(self.case)
        length = self.length
        question = Question(
            self.profile,
            self.case.cluster,
            self.case.job.spec.train,
            vary_batch=not keep_batch,
            devices=devices,
            to_run=self.case.measurable or self.on != "local",  # a plan for this machine is there to be launched on it
            strategies=strategies,
        )
        found = recommend(question, length, objective)
        shown = predict_played(question.profile, question.cluster, found.best.plan, length)
        reason = explained(question.profile, question.cluster, shown, length).prediction.bottleneck
        return replace(found, plans=(replace(found.best, bottleneck=reason), *found.plans[1:]))

    def references(self) -> list[ReferenceResult]:
        """Return what the published closed forms say of the plan's step, on the prediction's profile and cluster."""
        return references_for(self.profile, self.case.cluster, self.played.prediction.plan)

    def order(self, plan: Plan | None = None, where: str | Path = "plan") -> Order:
        """Return what is to be launched; a plan from elsewhere must fit this machine, errors call it ``where``."""
        cluster = self.case.cluster
        if not self.case.measurable and self.on == "local":
            raise FileError(
                self.case.job.where,
                "cluster",
                f'is {cluster.name}, and a launch is for this machine: take preset = "here", or --on emulated',
            )
        prediction = self.prediction if plan is None else self._predict(plan, where)
        self._check_runnable(prediction.plan, where if plan is not None else self.case.job.where, plan is None)
        virtual = is_virtual(cluster.device)
        return Order(
            case=self.case,
            prediction=prediction,
            threads=1 if self.on == "emulated" else cluster.threads_per_device or 1,
            device="virtual" if virtual else "cpu",
            unused_parameters=bool(self.profile.workload.unused_parameters) and not virtual,
            hosts=cluster.subset(prediction.plan.devices) if self.on == "emulated" else None,
            profile=self.profile if virtual else None,
        )

    def _check_runnable(self, plan: Plan, where: str | Path, of_job: bool) -> None:
        if not find_strategy(plan.strategy).runnable:
            can = ", ".join(name for name in strategy_names() if find_strategy(name).runnable)
            what = f"is {plan.strategy}, which can be predicted but not launched yet; those that can: {can}"
            raise FileError(where, "plan.strategy" if of_job else "strategy", what)

    def _predict(self, plan: Plan, where: str | Path) -> Prediction:
        """Return the prediction of a plan from elsewhere, checked as one of the job's own is."""
        try:
            find_strategy(plan.strategy)
        except UnknownNameError as error:
            raise FileError(where, "strategy", error.what) from None
        if plan.batch_per_device < 1:
            raise FileError(where, "batch_per_device", f"is {plan.batch_per_device}, must be at least 1")
        checked = make_plan(plan.strategy, plan.devices, plan.batch_per_device, plan.knobs, where, "knobs")
        if not 1 <= plan.devices <= self.case.cluster.devices:
            has = self.case.cluster.devices
            raise FileError(where, "devices", f"is {plan.devices}, but {self.case.cluster.name} offers {has}")
        length = self.length
        return predict_played(self.profile, self.case.cluster, checked, length).prediction

    def launch(self, plan: Plan | None = None, hear: Hear = lambda record: None) -> Run:
        """Train by the plan, on this machine or on the cluster that it puts up, and return what happened."""
        return launch_order(self.order(plan), hear)


def _emulated(case: Case) -> Case:
    from paceline.cluster.emulate.standin import stand_in

    try:
        return replace(case, cluster=stand_in(case.cluster))
    except FileError:
        raise
    except PacelineError as error:
        raise FileError(case.job.where, "cluster", str(error)) from error


def open_job(job: JobLike | None, overrides: Sequence[str] = ()) -> Job:
    """Return a job from its file, its tables, or overrides alone."""
    if isinstance(job, Job):
        return job
    if isinstance(job, Mapping):
        return job_from_tables(dict(job), overrides)
    return read_job(job, overrides)


def trace(job: JobLike) -> Workload:
    """Return a job's model as a workload: layers, FLOPs, bytes, traced without memory."""
    return Study(job).workload


def profile(job: JobLike) -> Profile:
    """Return the times of a job's model on one device: measured where that is this machine, modelled elsewhere."""
    return Study(job).profile


def predict(job: JobLike, profile: Profile | None = None) -> Prediction:
    """Return what a job's plan will take."""
    return Study(job, profile=profile).prediction


def recommend_plans(job: JobLike, profile: Profile | None = None, objective: Objective = "time") -> Recommendation:
    """Return every plan of a job that fits, ranked."""
    return Study(job, profile=profile).recommend(objective)


def launch(job: JobLike, plan: Plan | None = None, profile: Profile | None = None, on: On = "local") -> Run:
    """Train a job, on this machine or on the cluster that it puts up for the job's, and return what happened."""
    return Study(job, profile=profile, on=on).launch(plan)
