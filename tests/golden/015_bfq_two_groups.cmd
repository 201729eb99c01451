# A reader in each of two cgroups with weights 10 and 90, both with more to do than the device can: 10 to 90.
run examples/two-groups.fio --rules=7.2 --cgroups=examples/cgroups.toml --runtime=60ms --device=/dev/nvme0n1=null,latency=200us,depth=8,queues=1 --set=iosched.low_latency=0
