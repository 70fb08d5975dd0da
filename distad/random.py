"""Random numbers as functions of key and global index."""
