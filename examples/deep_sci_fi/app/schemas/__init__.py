"""What is sent and answered, one module an area."""
