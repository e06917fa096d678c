"""Checkpoints that survive anything: tensors and JSON, written beside the training, whole or not there.

    checkpoints/step-00000120/checkpoint.json      what is where, with a digest of itself and of each file
                              part-0.tensors       bytes of tensors, nothing else
                              part-1.tensors
    checkpoints/.step-00000150.0.pending/          being written: renamed when it is whole, never read before

    training   step step |copy| step step step step ...
    thread                     |claim, wait, write a part, fsync|  worker 0: |manifest, rename, prune|

What all workers have alike is written once, by one of them; the rest by its owner (:mod:`.share`). Loading reads what a
worker needs, however many there were (torch.distributed.checkpoint's planners find the overlaps), and executes nothing:
there is no pickle anywhere.
"""
