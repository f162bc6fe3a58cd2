"""What logs need when nobody asks: by the clock, aside from requests, and without ending the broker when it fails."""
