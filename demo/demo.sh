#!/bin/sh
# The main job in three minutes: measure a network here, plan one for a cluster that is not here, train for real, compare.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PACELINE_RUNS="${PACELINE_RUNS:-$work/runs}"

show() {
    printf '\n\033[1m$ paceline'
    printf ' %s' "$@"
    printf '\033[0m\n'
    paceline "$@"
}

echo "1. How fast is a network on one core of this machine?"
show profile digits.toml --layers 5 -o "$work/profile.json"

echo
echo "2. What is the best way to train ResNet-50 on 8 hosts of 4 P100, known to reach 207.79 images/s each?"
show recommend imagenet.toml --rows 5

echo
echo "3. Which plan for two workers here?"
show recommend digits.toml --set "profile.file=$work/profile.json" -o "$work/plan.json"

echo
echo "4. Train by it, and compare."
show launch digits.toml --set "profile.file=$work/profile.json" --plan "$work/plan.json"
