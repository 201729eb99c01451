# Two writers, the second 700 ms after the first, through BFQ of Linux 6.1 in the root cgroup: served together.
run --rules=6.1 --device=/dev/nvme0n1=null,latency=500us,depth=64,queues=1 --scheduler=bfq --set=iosched.low_latency=0
--name=first --filename=/dev/nvme0n1 --ioengine=psync --direct=1 --rw=randwrite --bs=4k --time_based --runtime=1s --name=second --filename=/dev/nvme0n1 --ioengine=psync --direct=1 --rw=randwrite --bs=4k --time_based --startdelay=700ms --runtime=300ms
