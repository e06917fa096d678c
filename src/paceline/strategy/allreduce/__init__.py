"""Data parallel by all-reduce: every device holds the whole model, gradients are averaged in buckets."""

from paceline.strategy.allreduce.plan import AllReduce

STRATEGY = AllReduce()
