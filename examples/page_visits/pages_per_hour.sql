-- Visits of each page and hour, by event time: an hour is written when the watermark has passed it.
SELECT WINDOW(at, '1 hour').start AS hour, url, COUNT(*) AS visits FROM visits GROUP BY WINDOW(at, '1 hour'), url
