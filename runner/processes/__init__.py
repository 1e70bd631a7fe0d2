"""Child processes: started, restarted, stopped in order, ended with their parent, and their log lines for people."""
