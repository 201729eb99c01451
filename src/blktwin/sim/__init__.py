"""The simulated machine: virtual nanoseconds, CPUs as serial resources, device models."""
