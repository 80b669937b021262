"""Processes: end them with the job that started them; how they return memory."""
