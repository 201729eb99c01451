# Two paced jobs: 500 I/Os a second, and bursts of four with a pause of 5 ms; a third waits for the first.
run --device=/dev/nvme0n1=nvme --name=global --direct=1 --filename=/dev/nvme0n1 --rw=randread --size=1m --number_ios=20 --name=paced --rate_iops=500 --name=bursts --thinktime=5ms --thinktime_blocks=4 --name=after --wait_for=paced
