"""Models of storage devices: when a started request completes."""
