# trimwrite discards each block before it writes it.
run --device=/dev/nvme0n1=nvme --name=trim --rw=trimwrite --bs=64k --size=1m --direct=1 --filename=/dev/nvme0n1
