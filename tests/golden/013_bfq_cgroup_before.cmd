# The same in a cgroup: BFQ keeps the device for one of them at a time.
run --rules=6.1 --cgroup=/a --device=/dev/nvme0n1=null,latency=500us,depth=64,queues=1 --scheduler=bfq --set=iosched.low_latency=0
--name=first --filename=/dev/nvme0n1 --ioengine=psync --direct=1 --rw=randwrite --bs=4k --time_based --runtime=1s --name=second --filename=/dev/nvme0n1 --ioengine=psync --direct=1 --rw=randwrite --bs=4k --time_based --startdelay=700ms --runtime=300ms
