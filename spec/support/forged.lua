-- Exported holds (lua/redlock/kinds/transfer.lua) with other numbers in them than they had.
local encoding = require "redlock.text.encoding"

-- @param text     what export() gave
-- @param numbers  { lease = ms, token = n, fence = n: the token of a permit, or "": none }; what is
--   left out stays
return function(text, numbers)
    local head, lease, token, fence, card = encoding.strip_checksum(text, ".")
        :match "^(redlock1%.%x+%.%x*%.%x+%.%x+%.)(%d+)%.(%d+)(%+?%d*)(.*)$"
    return encoding.add_checksum(("%s%s.%s%s%s"):format(head, numbers.lease or lease,
        numbers.token or token, numbers.fence and "+" .. numbers.fence or fence, card), ".")
end
