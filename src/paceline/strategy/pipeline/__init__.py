"""What the pipelines share: the order of passes, stages from layers, the tasks and the memory of a step."""
