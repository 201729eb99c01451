"""Block drivers: what stands between a hardware queue and a device."""
