"""A twin of the Linux block layer: run a fio job on simulated blk-mq, schedulers and devices."""

__version__ = "0.1.0"
