# Seven reads for three writes, in three sizes, at random, through mq-deadline. fio's own random streams decide.
run --device=/dev/sda=sata-ssd --seed=3 --name=mix --rw=randrw --rwmixread=70 --bssplit=4k/50:8k/30:64k/20 --size=8m --number_ios=200 --direct=1 --filename=/dev/sda --ioengine=io_uring --iodepth=4
