"""Simulated files behind drivers/backing.py: extents, inode lock, page cache, and what each file system does."""
