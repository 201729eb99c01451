# The job file of the BFQ mail for 100 ms: eight writers, each a second after the one before, so they never meet here.
run examples/bfq-concurrent-sync-io.fio --runtime=100ms --device=/dev/nvme0n1=seed2-nvme --scheduler=none
