"""PipeDream: an asynchronous pipeline with weight stashing and replicated stages."""

from paceline.strategy.pipedream.plan import PipeDream

STRATEGY = PipeDream()
