# Where the time of each I/O goes (--stages), on a loop device and on the drive below it, and how the loop driver worked
# (--explain loop). The image is sparse: writes into its holes cannot be executed without sleeping and go to a worker,
# reads are executed by the job itself.
run --stack tests/golden/016_stages.toml --stages --explain loop
    --name=global --filename=/dev/loop0 --direct=1 --bs=4k --size=16m --time_based --runtime=10ms
    --name=writer --rw=write --ioengine=libaio --iodepth=16 --iodepth_batch=8
    --name=reader --rw=randread --ioengine=psync --offset=32m
