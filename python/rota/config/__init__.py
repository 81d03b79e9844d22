"""What a server is run with, and where each value came from: flags over environment over file over default."""
