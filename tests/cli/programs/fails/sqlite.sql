select 'before';
select * from "went wrong";
select 'after';
