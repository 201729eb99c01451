# The smallest run: one thread writes 16 blocks, one after the other, on a device that answers after 100 us.
# Read the output from the top: the job line, the result, the depths, what the disk counted.
run --device=/dev/nullb0=null,latency=100us --name=writer --rw=write --bs=4k --size=64k --direct=1 --filename=/dev/nullb0
