"""What real engines say of their logs, read independently of the tool that is judged by it."""
