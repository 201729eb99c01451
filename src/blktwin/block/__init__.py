"""The policies: blk-mq and its elevators. No I/O, no clock, no randomness, no floats, no printing."""
