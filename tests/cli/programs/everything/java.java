import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;

public class Everything {
	public static void main(String[] args) throws IOException {
		System.out.println("hello");
		var input = new BufferedReader(new InputStreamReader(System.in));
		System.out.println("stdin: " + input.readLine());
		for (String arg : args)
			System.out.println("arg: " + arg);
		System.out.println("file: " + Files.readString(Path.of("data/input.txt")).trim());
		Files.writeString(Path.of("result.txt"), "written\n");
		System.err.println("to stderr");
		System.exit(3);
	}
}
