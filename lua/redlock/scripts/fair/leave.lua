-- A waiter gives up. Returns 1.
leave(ARGV[3])
if call('exists', KEYS[1]) == 0 then
    wake_head()
end
return 1
