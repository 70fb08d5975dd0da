"""Manual mode: shard_map and its boundary, casts, collectives, and what cannot deadlock."""
