# The same through mq-deadline, in a cgroup: the writer pays for the elevator and for two levels of cgroups.
run examples/bfq-concurrent-sync-io.fio --runtime=100ms --device=/dev/nvme0n1=seed2-nvme --scheduler=mq-deadline --cgroup=/c1/c2
