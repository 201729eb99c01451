"""The loop driver: a block device whose requests become operations on a file.

In the way of a request: driver.py takes it, inline.py or worker.py execute it, command.py is what it is meanwhile and
how it ends, outcome.py says with which status. device.py is the device's life; rfc.py a proposal with its defects.
Kernel: drivers/block/loop.c, v6.12.
"""
