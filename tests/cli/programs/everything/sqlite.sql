-- It has neither input nor arguments nor a way to write to stderr or to choose its exit code.
select 'hello';
select 'file: ' || rtrim(cast(readfile('data/input.txt') as text), char(10));
create table words (word text);
insert into words values ('written');
.once result.txt
select word from words;
