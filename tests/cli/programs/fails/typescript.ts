const text: string = "before";
console.log(text);
throw new Error("went wrong");
