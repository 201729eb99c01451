# A job that promises more than the disk can do: it ends with fio's error 5, and the run with status 1.
run --device=/dev/sda=hdd --name=promise --rw=randread --size=1g --direct=1 --filename=/dev/sda --rate_iops_min=1000 --runtime=10
