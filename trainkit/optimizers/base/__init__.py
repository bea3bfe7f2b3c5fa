"""What every optimizer is: slots, steps, and update rules compiled to one loop."""
