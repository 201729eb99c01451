# Regular files lie side by side on the first device. Three clones write parts of one file; one thread reads two files.
run --device=/dev/vda=virtual --name=global --direct=1 --size=128k --bs=8k --name=clones --filename=big --rw=write --numjobs=3 --offset_increment=128k --group_reporting --name=two --filename=a:b --rw=randread --ioengine=posixaio --iodepth=4
