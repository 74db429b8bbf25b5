console.log("before");
throw new Error("went wrong");
