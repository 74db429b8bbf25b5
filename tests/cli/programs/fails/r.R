cat("before\n")
stop("went wrong")
