"""What ars certify does: from a request to records, shard by shard, on this machine or on a Ray cluster."""
