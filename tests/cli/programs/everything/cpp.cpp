#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

static std::string first_line(std::istream &from)
{
	std::string line;

	if (!std::getline(from, line))
		throw std::runtime_error("nothing to read");
	return line;
}

int main(int argc, char **argv)
{
	std::cout << "hello" << std::endl;
	std::cout << "stdin: " << first_line(std::cin) << std::endl;
	for (int i = 1; i < argc; i++)
		std::cout << "arg: " << argv[i] << std::endl;
	std::ifstream input("data/input.txt");
	std::cout << "file: " << first_line(input) << std::endl;
	std::ofstream("result.txt") << "written" << std::endl;
	std::cerr << "to stderr" << std::endl;
	return 3;
}
