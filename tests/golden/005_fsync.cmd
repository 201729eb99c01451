# A buffered writer that syncs every fourth block: pages are dirtied at memory speed, the fsync writes them and flushes
# the disk's cache. "sync" tells how long that took.
run --device=/dev/sda=hdd --name=log --rw=write --bs=4k --size=128k --filename=/dev/sda --ioengine=psync --fsync=4
