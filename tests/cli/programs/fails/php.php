<?php
echo "before\n";
throw new Exception("went wrong");
