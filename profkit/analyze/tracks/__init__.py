"""What a timeline shows: threads, streams, collectives, memory and causes of each rank."""
