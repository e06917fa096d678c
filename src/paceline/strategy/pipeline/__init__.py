"""What the pipelines share: the order of forwards and backwards, stages from layers, the tasks and the memory of a step."""
