# The same since Linux 6.2, in a cgroup inside another: one group with requests is no reason to idle.
run --rules=6.12 --cgroup=/a/b --device=/dev/nvme0n1=null,latency=500us,depth=64,queues=1 --scheduler=bfq --set=iosched.low_latency=0
--name=first --filename=/dev/nvme0n1 --ioengine=psync --direct=1 --rw=randwrite --bs=4k --time_based --runtime=1s --name=second --filename=/dev/nvme0n1 --ioengine=psync --direct=1 --rw=randwrite --bs=4k --time_based --startdelay=700ms --runtime=300ms
