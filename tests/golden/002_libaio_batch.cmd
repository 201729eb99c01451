# libaio hands over four I/Os in one call, and fetches at least four: depth 4 and 8 by turns, batches of four, and a
# plug that merges what is adjacent.
run --device=/dev/nvme0n1=nvme,queues=1 --name=batch --rw=read --bs=4k --size=512k --direct=1 --filename=/dev/nvme0n1 --ioengine=libaio --iodepth=8 --iodepth_batch=4 --iodepth_batch_complete_min=4
