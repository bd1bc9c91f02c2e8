"""Where workspaces really are: containers, volumes and archives on this machine or on AWS, behind the same ports."""
