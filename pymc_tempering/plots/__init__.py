"""Pictures of tempered runs; every function returns the axes that it drew on.

matplotlib is imported when the first picture is drawn, so that sampling starts without it.
"""
