print("before")
error("went wrong")
