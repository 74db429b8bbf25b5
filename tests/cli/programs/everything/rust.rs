use std::{env, fs, io, process};

fn main() {
    println!("hello");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    println!("stdin: {}", line.trim_end());
    for arg in env::args().skip(1) {
        println!("arg: {}", arg);
    }
    println!("file: {}", fs::read_to_string("data/input.txt").unwrap().trim_end());
    fs::write("result.txt", "written\n").unwrap();
    eprintln!("to stderr");
    process::exit(3);
}
