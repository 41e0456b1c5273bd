"""What the commands read from servers without a running gateway."""
